//go:build race

package model

// walks are how many are taken: some, because nothing here is concurrent and the race detector makes it many times slower.
const (
	walks = "30"
	whole = false
)
