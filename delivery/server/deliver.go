package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/delivery/journal"
	"github.com/hearthdev/hearth/internal/tracing"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// deliver accepts an attempt, or says what is known of it, or refuses.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request) {
	body, p := jsonBody(r)
	if p != nil {
		writeProblem(w, p)
		return
	}
	request, p := wire.DecodeDelivery(body)
	if p == nil {
		_, p = query(r)
	}
	if p != nil {
		writeProblem(w, p)
		return
	}
	key := journal.Key{RunUID: request.Run.UID, Attempt: request.Attempt}
	a, p := s.admitIn(tracing.Under(r.Context(), tracing.FromHeaders(r.Header)), key, request)
	if p != nil {
		writeProblem(w, p)
		return
	}
	var end wire.State
	s.hold(r.Context(), preferredWait(r), func() bool {
		entry, err := s.cfg.Journal.Get(key)
		end = entry.State
		return err != nil || end.Ended()
	})
	switch {
	case a.Kind == delivery.AdmissionDuplicate || end == wire.StateFinished:
		s.writeAttempt(w, http.StatusOK, key)
	case end == wire.StateVoided:
		writeProblem(w, wire.NewProblem(wire.CodeVoided, "the attempt was voided before it started"))
	default:
		w.Header().Set("Location", location(key))
		s.writeAttempt(w, http.StatusAccepted, key)
	}
}

// admitIn is admit in the trace of ctx, or in one of its own.
func (s *Server) admitIn(ctx context.Context, key journal.Key, request wire.DeliveryRequest) (a delivery.Admission, p *wire.Problem) {
	_, span := s.cfg.Tracer.Start(ctx, spanAccept, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(about(key, request.Run)...))
	defer func() {
		answer := "accepted"
		switch {
		case p != nil:
			answer = string(p.Code)
		case a.Kind == delivery.AdmissionDuplicate:
			answer = "known"
		}
		span.SetAttributes(attribute.String("hearth.answer", answer))
		span.End()
		if p == nil { // without the lock: a log may be slow to take it
			s.log(key, request.Run, span.SpanContext()).Info(answer)
		}
	}()
	return s.admit(key, request, span.SpanContext())
}

// admit decides and, when it accepts, journals: one lock of the run over both, so that the same delivery fifty times in parallel is
// accepted once (row 11).
func (s *Server) admit(key journal.Key, request wire.DeliveryRequest, in trace.SpanContext) (delivery.Admission, *wire.Problem) {
	defer s.runs.lock(key.RunUID)()
	held, err := s.held(key)
	if err != nil {
		return delivery.Admission{}, s.fault(err)
	}
	a := s.decide(key, request, held)
	defer s.cfg.Journal.Unexpect(key)
	if a.Kind != delivery.AdmissionAccept {
		return a, a.Problem
	}
	defer s.queueAccepted(key, request, in) // also after a panic: what is in the journal is promised (fault row 42)
	if _, err := s.cfg.Journal.AcceptIn(request, remembered(in)); err != nil {
		return a, s.fault(err)
	}
	return a, nil
}

// decide takes a place for what it accepts, so that runs which come at the same moment do not get the last one twice.
func (s *Server) decide(key journal.Key, request wire.DeliveryRequest, held delivery.Held) delivery.Admission {
	s.mu.Lock()
	defer s.mu.Unlock()
	held.Capacity = s.capacity()
	a := delivery.Admit(s.cfg.Identity, s.cfg.Journal.ID(), request, held)
	if a.Kind == delivery.AdmissionAccept {
		s.cfg.Journal.Expect(key)
	}
	return a
}

// queueAccepted queues an attempt once it is journalled; the run's lock is held. A drain that began meanwhile has not seen it.
func (s *Server) queueAccepted(key journal.Key, request wire.DeliveryRequest, in trace.SpanContext) {
	if e, err := s.cfg.Journal.Get(key); err != nil || e.State != wire.StateAccepted {
		return
	}
	if a := s.queueNew(key, request, in); a != nil && s.draining.Load() {
		s.voidWaiting(a)
	}
}

// queueNew is nil when the attempt is in the queue already.
func (s *Server) queueNew(key journal.Key, request wire.DeliveryRequest, in trace.SpanContext) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.find(key) != nil {
		return nil
	}
	var limits wire.Limits
	if request.Limits != nil {
		limits = *request.Limits
	}
	a := s.enqueue(key, request.Run, limits, time.Duration(0), in)
	s.dispatch()
	return a
}

// held is what decisions go by, but for the capacity, which other runs take from, too (decide); the run's lock is held.
func (s *Server) held(key journal.Key) (delivery.Held, error) {
	h, err := s.cfg.Journal.History(key)
	if err != nil {
		return delivery.Held{}, fmt.Errorf("look up an attempt: %w", err)
	}
	held := delivery.Held{
		Highest: h.Highest, Active: h.Active,
		Draining: s.draining.Load() || s.life.Err() != nil, Agent: s.cfg.Runner.Agent().State,
	}
	if h.Same != nil {
		held.Same = &delivery.Known{Attempt: h.Same.Attempt, Forgotten: h.Same.Forgotten}
	}
	return held, nil
}
