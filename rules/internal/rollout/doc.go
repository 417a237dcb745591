// Package rollout is the guard of the rollouts: it takes the candidate of a rule
// from shadow to canary pods to every pod, or back, by what pods report of it.
//
// # What is compared
//
// In shadow a candidate meets the requests that the version in force has admitted:
// what it would refuse of them would be refused anew, and may be a margin of them (5
// of 100). On canary pods it is enforced, and its share of refusals may be above that
// of the version in force, on all other pods at the same time, by the margin. Beside
// each other on one pod they cannot be compared then: what is refused is not counted
// by a rule in shadow, whose bucket would stay full. Where there are only canary
// pods, their refusals count whole.
//
// What callers do not feel is no refusal of the version in force:
// of a rule in shadow mode, and where there was no rule, the candidate's refusals
// count whole. Otherwise a rule that in shadow would refuse everything could be
// enforced, because it refuses no more than before.
//
// So the guard will not let a rule be enforced that refuses more than 5 of 100
// requests from then on, though somebody may want just that (to stop an abuser).
// Whoever does takes the rollout on by hand, or says IMMEDIATE.
//
// # Evidence
//
// 100 requests are enough to roll back at any moment; a stage is left at the end of
// its bake. With less than 100 requests a stage lasts three bakes, and is judged then
// by what there is: too many refusals among few requests end the rollout, since the
// version in force is the one that is known to be good; no traffic at all lets it go
// on, and the audit log says so: a rule that nothing meets can harm nobody, and
// waiting longer would show nothing. Decided on 2026-12-02; the options that lost:
// to promote without traffic after one bake (a canary that has just started reports
// nothing for a while), and never to promote without traffic (rules of a route that
// is to come could not be prepared).
//
// # Canary pods
//
// Where no canary pod has reported within a minute that stage is skipped. In the
// canary stage it is otherwise: canary pods that report no more may have died of
// the candidate, and it is rolled back after three bakes. A candidate that a canary
// pod could not take (where there are none: any pod) is rolled back at once.
//
// # Several instances
//
// Every instance runs a Guard. Decide is a pure function; what it decides is
// written under the store's lock only if the rollout still is in the stage that was
// judged, and the time that the verdict rests on has passed by the store's clock: so
// one instance acts, whatever the clocks of the others say. There is no leader to
// lose. While the store is away rollouts stay where they are.
package rollout
