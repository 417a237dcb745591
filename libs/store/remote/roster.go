package remote

import (
	"context"
	"fmt"

	"github.com/shiplane/limits/libs/store"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// Beat implements members.Roster: the checkers note the pod where they note
// themselves. A heartbeat may be repeated, so that the next checker is asked whatever
// the last one's error was.
func (s *Store) Beat(ctx context.Context, pod string, alive bool) (live int, err error) {
	err = errOpen
	for e := range s.inTurn {
		call, cancel := context.WithTimeout(ctx, wireTimeout/2) // so that two are asked in the time of a heartbeat
		response, failure := e.checks.Join(call, &checkv1.JoinRequest{Pod: pod, Leaves: !alive})
		cancel()
		if failure == nil {
			return int(response.GetPods()), nil
		}
		if err = failure; ctx.Err() != nil {
			break
		}
	}
	return 0, fmt.Errorf("%w: heartbeat: %w", store.ErrUnavailable, err)
}
