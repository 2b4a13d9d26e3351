//go:build programs

// Package kubelet names the program that the kubelet suite builds, so that go.mod pins it and all it needs.
package kubelet

import _ "k8s.io/kubernetes/cmd/kubelet"
