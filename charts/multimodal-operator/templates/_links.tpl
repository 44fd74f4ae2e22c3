{{/*
Dashboards or rules (context, text) with their links to runbooks: where those are published, else to
the panels of the dashboard Runbooks.
*/}}
{{- define "multimodal-operator.runbookLinks" -}}
{{- $values := (index . 0).Values.observability }}
{{- $text := index . 1 }}
{{- if $values.runbooks }}
{{- $text = replace "docs/runbooks/" (printf "%s/" (trimSuffix "/" $values.runbooks)) $text }}
{{- else }}
{{- range (fromJson ((index . 0).Files.Get "files/dashboards/multimodal-runbooks.json")).panels }}
{{- $panel := printf "%s/d/multimodal-runbooks?viewPanel=%v" (trimSuffix "/" $values.grafana) .id }}
{{- $text = replace (printf "docs/runbooks/%s.md" .title) $panel $text }}
{{- end }}
{{- end }}
{{- $text }}
{{- end -}}
