//go:build !race

package attach

const raced = false
