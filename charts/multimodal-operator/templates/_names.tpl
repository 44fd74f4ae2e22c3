{{/* Names of objects: at most 52 characters, so that suffixes fit into the 63 of a label. */}}

{{- define "multimodal-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The release's name alone when it says the chart's name already. */}}
{{- define "multimodal-operator.fullname" -}}
{{- $name := include "multimodal-operator.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Cluster-wide objects carry the namespace: two releases of one name may live side by side. */}}
{{- define "multimodal-operator.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "multimodal-operator.fullname" .) -}}
{{- end -}}

{{- define "multimodal-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "multimodal-operator.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}
