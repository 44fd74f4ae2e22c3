{{/*
What the operator may do where models live. The reasons stand in
operator/mm_operator/cluster/permissions.py; a test compares the two.
*/}}
{{- define "multimodal-operator.modelRules" -}}
- apiGroups: [serving.multimodal.dev]
  resources: [multimodalmodels]
  verbs: [get, list, watch]
- apiGroups: [serving.multimodal.dev]
  resources: [multimodalmodels/scale, multimodalmodels/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [configmaps, persistentvolumeclaims, services]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
- apiGroups: [""]
  resources: [pods]
  verbs: [delete, get, list, watch]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [create, list]
{{- if .Values.keda.enabled }}
- apiGroups: [keda.sh]
  resources: [scaledobjects, triggerauthentications]
  verbs: [create, delete, get, list, patch, watch]
{{- end }}
{{- end -}}
