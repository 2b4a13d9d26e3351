//go:build programs

// Package kubernetes names the programs that the cluster suite builds, so that go.mod pins them and all they need.
package kubernetes

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
