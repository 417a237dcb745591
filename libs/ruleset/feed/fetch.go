package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shiplane/limits/libs/ruleset"
)

// fetchTimeout is how long one address may take for the whole ruleset.
const fetchTimeout = 10 * time.Second

// Fetch returns the rules as the service has them now, for a program that does not go
// on. Addresses are asked one after another; the error tells why none answered, or
// what of the rules has faults.
func Fetch(ctx context.Context, cfg Config) (*ruleset.Ruleset, error) {
	cfg.Copy = ""
	f, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, at := range f.services {
		if err := f.fetch(ctx, at); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", at.address, err))
			continue
		}
		var faults []error
		for _, text := range f.Status().Faults {
			faults = append(faults, errors.New(text))
		}
		return f.Current(), errors.Join(faults...)
	}
	return nil, errors.Join(failures...)
}

// fetch watches until the whole has been looked at.
func (f *Feed) fetch(ctx context.Context, at *service) error {
	ctx, stop := context.WithTimeout(ctx, fetchTimeout)
	defer stop()
	var failure error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failure = f.watch(ctx, at)
	}()
	select {
	case <-f.changed:
		stop()
		<-ended
		return nil
	case <-ended:
		return failure
	}
}
