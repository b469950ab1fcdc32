package check

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// Port judges whether the harness could listen there.
func Port(ctx context.Context, name, address, variable string) Point {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return failed(name, address+" is in use by another process", "end that process, for example a harness that runs already, or set "+variable)
	case errors.Is(err, syscall.EACCES):
		return failed(name, address+" may not be listened on by this user", "set "+variable+" to a port from 1024 on")
	case err != nil:
		return failed(name, err.Error(), "set "+variable+" to an address such as :4000")
	}
	if err := listener.Close(); err != nil {
		return failed(name, err.Error(), "set "+variable+" to another address")
	}
	return ok(name, "%s is free", address)
}
