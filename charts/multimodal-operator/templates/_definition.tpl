{{/*
Whether the operator upgrades the resource definition; empty: it does not.
*/}}
{{- define "multimodal-operator.upgradesDefinition" -}}
{{- if or (eq .Values.definition.upgrade "Always") (and (eq .Values.definition.upgrade "Auto") (not .Values.watchNamespaces)) -}}
true
{{- end -}}
{{- end -}}
