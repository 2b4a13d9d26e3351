//go:build programs

// Package controlplane names the programs that the kubelet suite builds beside kubelet, so that go.mod pins them and all they need.
package controlplane

import (
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
