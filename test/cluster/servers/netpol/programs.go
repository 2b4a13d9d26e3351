//go:build programs

// Package netpol names what scripts/test-netpol builds, so that go.mod pins it and all it needs: Kubernetes' own tests, their image's
// program, and kube-proxy, since the tests dial addresses of Services.
package netpol

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/images/agnhost"
)
