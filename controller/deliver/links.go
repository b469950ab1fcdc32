package deliver

import (
	"github.com/hearthdev/hearth/delivery/client"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Link is what the reconcilers need of a target's Link. No method waits for the network.
type Link interface {
	Status() client.Status
	Snapshot(key client.Key) (client.Attempt, bool)
	About(run string) []client.Attempt
	Send(d client.Delivery, begun int) error
	Look(run wire.RunRef, attempt int64) error
	Void(run wire.RunRef, attempt int64) error
	Cancel(run wire.RunRef, attempt int64, trace client.Trace) error
	Recorded(run wire.RunRef, attempt int64) error
	Forget(key client.Key)
	Doubt(key client.Key)
	Kick()
}

// Links holds one Link per Pod UID.
type Links interface {
	// Ensure opens the Link of a Pod, or moves the open one to the address.
	Ensure(cfg client.Config) (Link, error)
	// Get gives the Link of a Pod; false when none is open.
	Get(podUID string) (Link, bool)
	// Remove closes the Link of a Pod that is gone.
	Remove(podUID string)
	// Close closes them all.
	Close()
}

// ClientLinks are the real ones.
type ClientLinks struct{ *client.Links }

// NewLinks makes an empty registry of real Links.
func NewLinks() ClientLinks { return ClientLinks{client.NewLinks()} }

// Ensure implements Links.
func (l ClientLinks) Ensure(cfg client.Config) (Link, error) {
	link, err := l.Links.Ensure(cfg)
	if err != nil {
		return nil, err
	}
	return link, nil
}

// Get implements Links.
func (l ClientLinks) Get(podUID string) (Link, bool) {
	link := l.Links.Get(podUID)
	return link, link != nil
}
