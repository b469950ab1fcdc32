package room

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Wherever a process begins.
func TestEachAddressIsAnotherLoopbackAddress(t *testing.T) {
	seen := map[string]bool{}
	for range 3 * perBlock {
		ip := NewIP()
		at, err := netip.ParseAddr(ip)
		require.NoError(t, err)
		assert.True(t, at.IsLoopback(), ip)
		assert.False(t, seen[ip], ip)
		seen[ip] = true
	}
}
