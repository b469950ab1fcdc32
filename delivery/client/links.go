package client

import "sync"

// Links are the Links of one controller, by Pod UID.
type Links struct {
	mu     sync.Mutex
	closed bool
	links  map[string]*Link
}

// NewLinks makes an empty registry.
func NewLinks() *Links { return &Links{links: map[string]*Link{}} }

// Ensure opens the Link of a Pod, or, when it is open, moves it to the address and, if that stayed the same, leaves it alone.
func (s *Links) Ensure(cfg Config) (*Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if l := s.links[cfg.Target.PodUID]; l != nil {
		return l, l.Move(cfg.Address)
	}
	l, err := New(cfg)
	if err != nil {
		return nil, err
	}
	s.links[cfg.Target.PodUID] = l
	l.Start()
	return l, nil
}

// Get is the Link of a Pod, nil when none is open.
func (s *Links) Get(podUID string) *Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links[podUID]
}

// Remove closes the Link of a Pod that is gone.
func (s *Links) Remove(podUID string) {
	s.mu.Lock()
	l := s.links[podUID]
	delete(s.links, podUID)
	s.mu.Unlock()
	if l != nil {
		l.Close()
	}
}

// Close closes all Links and lets none be opened any more.
func (s *Links) Close() {
	s.mu.Lock()
	s.closed = true
	links := s.links
	s.links = map[string]*Link{}
	s.mu.Unlock()
	for _, l := range links {
		l.cancel() // all at once, so that closing takes as long as the slowest
	}
	for _, l := range links {
		l.Close()
	}
}
