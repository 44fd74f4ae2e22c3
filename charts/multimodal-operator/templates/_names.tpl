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
{{- /* Helm's linter renders without a namespace. */}}
{{- printf "%s-%s" .Release.Namespace (include "multimodal-operator.fullname" .) | trimPrefix "-" -}}
{{- end -}}

{{/*
A namespace that does not exist would fail the installation after half of its objects are made.
Rendering without a cluster finds no namespace at all and decides nothing.
*/}}
{{- define "multimodal-operator.requireNamespaces" -}}
{{- $found := dict -}}
{{- range prepend .Values.watchNamespaces .Release.Namespace -}}
{{- if lookup "v1" "Namespace" "" . -}}{{- $_ := set $found . true -}}{{- end -}}
{{- end -}}
{{- range .Values.watchNamespaces -}}
{{- if and $found (not (hasKey $found .)) -}}
{{- fail (printf "watchNamespaces: namespace %s does not exist: create it first (kubectl create namespace %s) or take it out of the list" . .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "multimodal-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "multimodal-operator.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}
