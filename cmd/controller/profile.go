package main

import (
	"flag"
	"fmt"
	"runtime"
	"time"
)

const (
	// contended is one in how many waits for a mutex is sampled while profiles are served.
	contended = 10
	// blocked is how long a goroutine has to wait for one sample of that to be likely.
	blocked = 10 * time.Microsecond
)

// profileFlag is that of Go's profiles. They show no goal and no secret, but names and addresses in stacks, and who asks for one makes work.
func profileFlag(set *flag.FlagSet, o *options) {
	set.Func("pprof-bind-address", "host:port of Go's profiles under /debug/pprof/, such as 127.0.0.1:6060 for kubectl port-forward alone; it has no login. Empty for none", func(v string) error {
		if v != "" && !isHostPort(v) {
			return fmt.Errorf("expected host:port such as 127.0.0.1:6060, or nothing for no profiles; %.63q is none", v)
		}
		o.profiles = v
		return nil
	})
}

// sample has waits sampled where profiles are served; nobody else pays for it.
func sample(o options) {
	if o.profiles != "" {
		runtime.SetMutexProfileFraction(contended)
		runtime.SetBlockProfileRate(int(blocked.Nanoseconds()))
	}
}
