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
What there is of watchNamespaces, as JSON: {"there": [...], "missing": [...]}. A Role in a namespace
that does not exist would fail the installation after half of its objects are made, so what is
missing is left out and the operator says so. Without any of them there would be nothing to serve,
and no flag that keeps the operator from every namespace. Rendering without a cluster finds no
namespace at all and decides nothing.
*/}}
{{- define "multimodal-operator.namespaces" -}}
{{- $found := dict -}}
{{- range prepend .Values.watchNamespaces .Release.Namespace -}}
{{- if lookup "v1" "Namespace" "" . -}}{{- $_ := set $found . true -}}{{- end -}}
{{- end -}}
{{- $there := list -}}
{{- $missing := list -}}
{{- range .Values.watchNamespaces -}}
{{- if or (not $found) (hasKey $found .) -}}
{{- $there = append $there . -}}
{{- else -}}
{{- $missing = append $missing . -}}
{{- end -}}
{{- end -}}
{{- if and $missing (not $there) -}}
{{- fail (printf "watchNamespaces: none of them exists (%s): create one first (kubectl create namespace %s), or take all out of the list" (join ", " $missing) (first $missing)) -}}
{{- end -}}
{{- dict "there" $there "missing" $missing | toJson -}}
{{- end -}}

{{- define "multimodal-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "multimodal-operator.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}
