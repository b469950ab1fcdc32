//go:build !race

package deliver

const raced = false
