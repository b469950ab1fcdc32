package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASymbolBelongsToAModuleOrToTheStandardLibrary(t *testing.T) {
	for symbol, want := range map[string]string{
		"net/http.(*Server).Serve":                                standard,
		"runtime.mallocgc":                                        standard,
		"vendor/golang.org/x/net/http2/hpack.init":                "golang.org/x/net",
		"github.com/hearthdev/hearth/runtime/router.Open":         "github.com/hearthdev/hearth",
		"github.com/hearthdev/hearth/runtime/router.(*Conn).read": "github.com/hearthdev/hearth",
		"go.etcd.io/bbolt.Open":                                   "go.etcd.io/bbolt",
		"google.golang.org/protobuf/proto.Marshal":                "google.golang.org/protobuf",
		"slices.SortFunc[go.shape.[]github.com/a/b.C]":            standard,
		"type:*github.com/a/b.C":                                  others,
		"go:string.*":                                             others,
	} {
		assert.Equal(t, want, owner(symbol), symbol)
	}
}

func TestAnOptionThatMeasuresNothingIsNamed(t *testing.T) {
	require.NoError(t, options{rounds: 1, runs: 300}.check())
	require.NoError(t, options{rounds: keptRounds, runs: 300, update: true}.check())
	assert.ErrorContains(t, options{runs: 300}.check(), "-rounds: expected 1 or more, got 0")
	assert.ErrorContains(t, options{rounds: 1, runs: warmRuns}.check(), "-runs: expected more than")
	assert.ErrorContains(t, options{rounds: 1, runs: 300, update: true}.check(), "-update: expected 3 rounds at least")
}
