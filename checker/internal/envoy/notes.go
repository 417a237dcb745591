package envoy

import (
	"context"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// outcome is what became of a descriptor before the engine saw it.
type outcome uint8

const (
	matched outcome = iota + 1
	unknownDomain
	unknownKey
	unknownRule
	unknownRoute
	noIdentity  // it says not who asks, or not by what the rule counts
	wideNetwork // its network holds more than one caller
	noRule      // who asks, and for what, is known, and no rule is about it
	unreadableValue
	invalid // the whole request
)

var outcomes = [...]string{
	matched: "matched", unknownDomain: "unknown_domain", unknownKey: "unknown_key", unknownRule: "unknown_rule", unknownRoute: "unknown_route",
	noIdentity: "no_identity", wideNetwork: "wide_network", noRule: "no_rule", unreadableValue: "unreadable", invalid: "invalid",
}

// said are the log's words for what is logged once.
var said = map[outcome]string{
	unknownDomain: "no limit: there is no such domain", unknownKey: "no limit: it has a key that means nothing here",
	unknownRule: "no limit: it names a rule that does not exist", unknownRoute: "no limit: it names a route that does not exist",
	wideNetwork: "no limit: its network holds more than one caller", unreadableValue: "refused: it has a value that nobody can be",
	invalid: "answered with INVALID_ARGUMENT",
}

// Bounds of the log: what is in it comes from the configuration of an Envoy, but
// could come from its clients.
const (
	notesMax = 64 // texts that are logged, once each, in the life of the process
	noteMax  = 64 // bytes of a text
)

// notes counts what becomes of descriptors, and logs what somebody has to mend.
// Safe for concurrent use.
type notes struct {
	counter metric.Int64Counter
	labels  [len(outcomes)][]metric.AddOption
	log     *slog.Logger

	mu     sync.RWMutex
	logged map[note]bool
}

type note struct {
	of   outcome
	text string
}

func newNotes(provider metric.MeterProvider, log *slog.Logger) (*notes, error) {
	n := &notes{log: log, logged: map[note]bool{}}
	for of, name := range outcomes {
		n.labels[of] = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", name)))}
	}
	var err error
	n.counter, err = provider.Meter("github.com/shiplane/limits/checker").Int64Counter("shiplane_checker_envoy_descriptors",
		metric.WithDescription("Descriptors of Envoy's protocol by what was found for them; invalid counts requests."))
	return n, err
}

func (n *notes) count(of outcome) { n.counter.Add(context.Background(), 1, n.labels[of]...) }

// once logs a text the first time that it comes, while there is room for more.
func (n *notes) once(of outcome, text string) {
	key := note{of, text[:min(len(text), noteMax)]}
	n.mu.RLock()
	done := n.logged[key] || len(n.logged) > notesMax
	n.mu.RUnlock()
	if done {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.logged[key] || len(n.logged) > notesMax:
		return
	case len(n.logged) == notesMax:
		key = note{}
		n.log.Warn("more about Envoy's descriptors is not logged; shiplane_checker_envoy_descriptors_total counts it")
	default:
		key.text = string([]byte(key.text)) // of a message that is used no longer
		n.log.Warn("a descriptor of an Envoy is not as it should be", "why", said[of], "what", key.text)
	}
	n.logged[key] = true
}
