package endpoint

import (
	"context"

	"github.com/hearthdev/hearth/runtime/attach"
)

// Clients is whoever takes the messages of clients (attach.Hub).
type Clients interface {
	// Connect begins a client's connection, of which initialize was not received yet. The error says why there is no room.
	Connect(access attach.Access) (Client, error)
}

// Client is one client's connection.
type Client interface {
	// Receive takes one message of the client. It does not wait for the agent.
	Receive(message []byte)
	// Next waits for the next message to the client. The error is ctx's, or says why the connection ends; it may be shown to the client.
	Next(ctx context.Context) (attach.Message, error)
	// More tells whether Next has one at once; false says nothing.
	More() bool
	// Close says that the client is gone.
	Close()
}
