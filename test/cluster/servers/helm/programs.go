//go:build programs

// Package helm names the program that the tests of the chart build, so that go.mod pins it and all it needs.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
