package room

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
)

// blocks of perBlock loopback addresses begin at 127.20.0.1; each process starts at one of them.
const (
	blocks   = 200 * 250
	perBlock = 200
)

var nextAddress, firstBlock = atomic.Uint32{}, rand.Uint32N(blocks)

// NewIP is a loopback address that nothing in this process has, and no other test on this machine is likely to use.
func NewIP() string {
	n := nextAddress.Add(1) - 1
	block := (firstBlock + n/perBlock) % blocks
	return fmt.Sprintf("127.%d.%d.%d", 20+block/250, block%250, 1+n%perBlock)
}
