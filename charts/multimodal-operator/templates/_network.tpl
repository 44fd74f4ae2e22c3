{{/*
spec.network of models that name none, as JSON; empty where nothing is set.
*/}}
{{- define "multimodal-operator.network" -}}
{{- $proxy := dict }}
{{- range $name, $value := .Values.network.proxy }}
{{- if $value }}
{{- $_ := set $proxy $name $value }}
{{- end }}
{{- end }}
{{- $network := dict }}
{{- if $proxy }}
{{- $_ := set $network "proxy" $proxy }}
{{- end }}
{{- if .Values.network.caBundle.configMapName }}
{{- $_ := set $network "caBundle" .Values.network.caBundle }}
{{- end }}
{{- if .Values.network.hubEndpoint }}
{{- $_ := set $network "hubEndpoint" .Values.network.hubEndpoint }}
{{- end }}
{{- if .Values.network.ipFamilyPolicy }}
{{- $_ := set $network "ipFamilyPolicy" .Values.network.ipFamilyPolicy }}
{{- end }}
{{- if $network }}
{{- toJson $network }}
{{- end }}
{{- end -}}
