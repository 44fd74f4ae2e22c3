{{- define "multimodal-operator.routerName" -}}
{{- include "multimodal-operator.fullname" . }}-router
{{- end -}}

{{/* Of cluster-wide objects. */}}
{{- define "multimodal-operator.routerClusterName" -}}
{{- include "multimodal-operator.clusterName" . }}-router
{{- end -}}

{{- define "multimodal-operator.routerSelectorLabels" -}}
app.kubernetes.io/name: {{ include "multimodal-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: router
{{- end -}}

{{- define "multimodal-operator.routerLabels" -}}
{{ include "multimodal-operator.routerSelectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Namespaces whose models are routed to, as JSON; an empty list is every namespace. */}}
{{- define "multimodal-operator.routerNamespaces" -}}
{{- default (include "multimodal-operator.namespaces" . | fromJson).there .Values.router.namespaces | toJson -}}
{{- end -}}
