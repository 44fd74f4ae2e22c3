// Command coredns serves DNS for the development cluster.
//
// It is CoreDNS with the plugins of the cluster's Corefile and no more: the stock program links
// every plugin, cloud vendors' SDKs among them, which multiplies compile time and size. It is in the
// module of Kubernetes: the libraries of both are compiled once.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() { coremain.Run() }
