//go:build programs

// Package etcd names the programs that the cluster suite builds, so that go.mod pins them and all they need.
package etcd

import _ "go.etcd.io/etcd/server/v3"
