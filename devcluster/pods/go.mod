// Two tiny programs that run in pods: the pause container, and a probe for the cluster's own tests.
module multimodal.dev/devcluster/pods

go 1.26.0
