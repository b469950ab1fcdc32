// Package faults proves what Hearth promises when something breaks. The cases run on test/faults/rig with the build tag faults; here, in
// every build, is the register of all faults and of every test that proves what comes of one. docs/faults.md is written from it.
package faults

import "slices"

// Row is a fault with its end, as docs/requirements.md counts them.
type Row struct {
	Number     int
	Fault, End string
	Places     []Place
}

// Place is a test that proves a row, or a part of it.
type Place struct {
	Why     Why
	Package string // below the module, with slashes
	Test    string // the name of its function
}

// Why says with what a test proves it.
type Why string

// From the whole thing to its parts.
const (
	Processes Why = "real processes"                  // controllers or harnesses as processes of their own
	Kubelet   Why = "a real kubelet"                  // make e2e
	API       Why = "a real API server"               // and the harness inside the test
	Component Why = "one component"                   // by itself, over real files, connections or processes where it has some
	Clock     Why = "an injected clock"               // what takes minutes
	Decision  Why = "a pure decision"                 // values in, values out
	Random    Why = "random order"                    // a model of everything, with shrinking
	Open      Why = "not proven by a test of its own" // Test says what is missing
)

// Two models meet these rows, in random order: the small one beside the decisions, and the one of everything.
var (
	inDelivery = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16, 17, 18, 22, 23, 24, 25, 28, 30, 31, 32, 33, 38, 39, 46, 47, 51, 53, 54, 55}
	inModel    = append([]int{20, 45, 50}, inDelivery...)
)

// Rows are all rows, by number.
func Rows() []Row {
	rows := slices.Concat(controllerRows(), harnessRows(), networkRows(), peopleRows(), boundsRows(), restRows())
	for i := range rows {
		if slices.Contains(inDelivery, rows[i].Number) {
			rows[i].Places = append(rows[i].Places, at(Random, "delivery", "TestNothingIsLostAndNothingRunsTwiceInAnyOrder")...)
		}
		if slices.Contains(inModel, rows[i].Number) {
			rows[i].Places = append(rows[i].Places, at(Random, "test/faults/model", "TestNothingIsLostAndNothingRunsTwiceWhateverHappens")...)
		}
	}
	return rows
}

// at are tests of one package.
func at(why Why, pkg string, tests ...string) []Place {
	var all []Place
	for _, t := range tests {
		all = append(all, Place{why, pkg, t})
	}
	return all
}

// open says what is not proven.
func open(missing string) []Place { return []Place{{Why: Open, Test: missing}} }

func places(groups ...[]Place) []Place { return slices.Concat(groups...) }
