// Package soak holds no code, only a test that takes minutes: `make soak`.
package soak
