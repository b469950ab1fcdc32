//go:build race

package deliver

const raced = true
