{{/* What a selector matches: never changes over the life of a release. */}}
{{- define "multimodal-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "multimodal-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "multimodal-operator.labels" -}}
{{ include "multimodal-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}
