package ledger

import (
	"context"
	"errors"
	"time"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// Errors of a Store.
var (
	ErrNotFound    = errors.New("not found")
	ErrCompacted   = errors.New("the log does not lead on from this revision") // Since: take a Snapshot
	ErrUnavailable = errors.New("the rules store cannot be reached")
	ErrRefused     = errors.New("the rules store refuses the change") // a constraint of the store that the caller has not checked before
	ErrNoHints     = errors.New("hints of new revisions do not come") // Wait: poll
)

// Actions, as the audit log says them.
const (
	ActionPut      = "put"
	ActionDelete   = "delete"
	ActionShadow   = "shadow"
	ActionEnforce  = "enforce"
	ActionRollback = "rollback" // of a rule to an earlier version, or of a rollout
	ActionRollout  = "rollout"  // a candidate's first stage
	ActionAdvance  = "advance"  // a candidate's next stage
	ActionPromote  = "promote"  // a candidate has become the rule
	ActionImport   = "import"   // from a rule file
)

// Entry is one change as it was written.
type Entry struct {
	Revision int64 // from 1; several entries of one write share it
	Ordinal  int   // within the revision, from 0
	Domain   string
	Change   *rulesv1.Change // what the item became; never nil
	Before   *rulesv1.Change // what it was; nil for nothing
	Version  int64           // of what it became; a deletion's is the next one too; 0 for kinds without versions (plans, overrides)
	Action   string
	Author   string // a token's name, or "rollout guard"
	Why      string
	At       time.Time // the store's clock
}

// State is everything in force at one revision.
type State struct {
	Revision int64
	Domains  map[string]*rulesv1.Ruleset // all that were ever written to, with the candidates under way; lists are sorted by id, revision is the last one that changed the domain
}

// Store keeps the rules. All its methods are safe for concurrent use, also by
// several processes on one database. Messages that it returns are the caller's;
// those that it is given it does not keep. Times are kept to Resolution.
type Store interface {
	// Head returns the last revision; 0 before the first write.
	Head(ctx context.Context) (int64, error)
	// Snapshot returns the state at one revision.
	Snapshot(ctx context.Context) (*State, error)
	// Since returns the entries after a revision in their order, whole revisions
	// only and at least one of them if there is one, until there are most
	// entries or more. ErrCompacted: nobody can tell what came after, for the log
	// begins later, or ends before it (a database restored from an older backup).
	Since(ctx context.Context, after int64, most int) ([]Entry, error)
	// Wait returns when there may be a revision after this one, or ctx ends, or
	// for no reason: it is a hint that saves the time to the next poll, never
	// the truth. Its error is ctx's, or ErrNoHints at once if none come now.
	Wait(ctx context.Context, after int64) error

	// Write runs f with the only right to write. If f returns nil and has
	// appended something, that is committed as the next revision, which Write
	// returns; if it has appended nothing, Write returns the last revision. If
	// f returns an error nothing is written, and Write returns that error.
	// f may be run again after a failure that is known to have written nothing.
	// What the whole write breaks (an item names one that is not there, a version
	// was used before) is ErrRefused, too.
	Write(ctx context.Context, f func(ctx context.Context, tx Tx) error) (revision int64, err error)

	// History returns entries from the last to the first. before is the
	// position after which it goes on; zero for the last entry. At most most.
	History(ctx context.Context, q HistoryQuery, before Position, most int) ([]Entry, error)
	// Rules, Routes and Overrides return what is in force, by id, after an id; at
	// most most, and the domain's revision at which it is so. Plans returns all.
	Rules(ctx context.Context, domain string, q RuleQuery, after string, most int) ([]*rulesv1.Rule, int64, error)
	Routes(ctx context.Context, domain, after string, most int) ([]*rulesv1.Route, int64, error)
	Overrides(ctx context.Context, domain string, q OverrideQuery, after string, most int) ([]*rulesv1.Override, int64, error)
	Plans(ctx context.Context, domain string) ([]*rulesv1.Plan, int64, error)
	// Item returns one thing in force, as what a Change puts; ErrNotFound.
	Item(ctx context.Context, domain string, kind rulesv1.Kind, id string) (*rulesv1.Change, error)
	// Rollouts returns rollouts by their time, the latest first, without counts.
	Rollouts(ctx context.Context, q RolloutQuery, before Position, most int) ([]Rollout, error)

	Reports
	Tokens

	// Close ends all connections.
	Close()
}

// Tx is a write under way. It shows the ledger as it was before the write: what
// was appended does not show yet. Not safe for concurrent use.
type Tx interface {
	// Head is the last revision: this write makes the next one.
	Head() int64
	// Now is the store's clock when the write began: the At of its entries.
	Now() time.Time
	// Since is Store.Since within the write.
	Since(ctx context.Context, after int64, most int) ([]Entry, error)
	// LastVersion returns the version that an id of a kind with versions (rule,
	// route) had last, of its candidates too and also if it is gone; 0 for none.
	LastVersion(ctx context.Context, domain string, kind rulesv1.Kind, id string) (int64, error)
	// Version returns a rule as it was at a version that was in force; ErrNotFound.
	Version(ctx context.Context, domain, rule string, version int64) (*rulesv1.Rule, error)
	// Append writes an entry; Revision, Ordinal and At are filled in, and the times
	// of overrides are cut to Resolution, in e too. One write has at most one entry
	// for an item, and deletes only what is there. Versions of rules and routes
	// grow: a candidate's becomes the rule's when it is promoted. An entry
	// that puts a candidate begins a rollout or brings it to its stage; one that
	// deletes it ends the rollout, promoted if the action is ActionPromote, else
	// rolled back. ErrRefused: Prepare refuses e, or e is the second for its item.
	Append(ctx context.Context, e *Entry) error
}

// Position is a place in the log.
type Position struct {
	Revision int64 // 0 for the end of the log
	Ordinal  int
}

// HistoryQuery says which entries; its zero value says all.
type HistoryQuery struct {
	Domain string
	Kind   rulesv1.Kind // of a rule: its candidates too
	ID     string
	Author string
}

// RuleQuery says which rules; its zero value says all.
type RuleQuery struct {
	Plan, Route string
	Identity    rulesv1.Identity
	Mode        rulesv1.Mode // MODE_ENFORCE: those that say nothing, too
}

// OverrideQuery says which overrides; its zero value says all.
type OverrideQuery struct{ Rule, Key string }

// RolloutQuery says which rollouts; its zero value says all.
type RolloutQuery struct {
	Domain, Rule string
	Active       bool
}

// Rollout is a candidate under way, or what became of it.
type Rollout struct {
	Domain      string
	Rule        *rulesv1.Rule // the candidate, with its version
	BaseVersion int64         // 0 for a new rule
	State       rulesv1.RolloutState
	StartedAt   time.Time
	Since       time.Time // of this state
	Author      string    // who began it
	Why         string    // of its last step
	Position    Position  // of the entry that began it
}

// PodsKept is how long a pod that no longer reports is remembered at least.
const PodsKept = 24 * time.Hour

// Reports keeps what pods tell. It is no part of the log.
type Reports interface {
	// Report stores what pods have told; the last report of a pod replaces the
	// ones before. Counts of a (rule, version) that no rollout under way is
	// about are dropped. ErrRefused: CheckReport refuses one, and none was stored.
	Report(ctx context.Context, reports []Report) error
	// Pods returns the pods of a domain that have reported since, by id.
	Pods(ctx context.Context, domain string, since time.Time) ([]*rulesv1.PodStatus, error)
	// Counts returns what was decided in the present stage of a rollout under
	// way: in STAGE_SHADOW by all pods, in
	// STAGE_CANARY by those that enforce each: of the candidate by canary pods, of its
	// base by all others. ErrNotFound.
	// Of each incarnation of a pod it counts from that incarnation's first report in
	// the stage on, so that candidate and base count the same requests. A report is
	// in the stage if its revision is the one that began the stage, or later: a pod
	// that goes by an older one has not met the candidate yet.
	Counts(ctx context.Context, domain, rule string) (Counts, error)
}

// Report is what one pod has told, with counts from the pod's start on.
type Report struct {
	Domain      string
	Pod         *rulesv1.Pod
	Incarnation string
	Revision    int64
	Faults      []string
	Counts      []*rulesv1.RuleCounts
	At          time.Time
}

// Counts are the requests that a candidate and its base met in one stage.
type Counts struct {
	Candidate, Base struct{ Evaluated, Refused int64 }
	Pods            int // that have reported in the stage
}

// Tokens keeps bearer tokens.
type Tokens interface {
	// CreateToken stores a token. ErrRefused: its id or its secret is another's.
	CreateToken(ctx context.Context, t *Token) error
	// Tokens returns all tokens, void ones too, by the time they were made.
	Tokens(ctx context.Context) ([]*Token, error)
	// RevokeToken makes a token void; of one that is void already it changes
	// nothing. ErrNotFound.
	RevokeToken(ctx context.Context, id string, at time.Time) (*Token, error)
}

// Token is a bearer token at rest.
type Token struct {
	ID                              string
	Hash                            [32]byte // SHA-256 of the secret, which has 256 random bits
	Name                            string
	Role                            rulesv1.Role
	CreatedAt, ExpiresAt, RevokedAt time.Time // zero for never
}
