//go:build !race

package model

// walks are how many are taken, a hundred thousand steps; whole, that they are enough for everything to have happened.
const (
	walks = "400"
	whole = true
)
