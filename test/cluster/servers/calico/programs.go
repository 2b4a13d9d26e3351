//go:build programs

// Package calico names the program that the bench compares with, so that go.mod pins it and all it needs: Calico's plugins of v3.28.5.
package calico

import _ "github.com/projectcalico/calico/cni-plugin/cmd/calico"
