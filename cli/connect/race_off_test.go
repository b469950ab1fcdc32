//go:build !race

package connect

const raceDetector = false
