//go:build programs

// Package promtool names the program that the test of the alerts builds, so that go.mod pins it and all it needs.
package promtool

import _ "github.com/prometheus/prometheus/cmd/promtool"
