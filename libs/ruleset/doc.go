// Package ruleset turns rules, as a file or the rules service writes them, into
// an immutable snapshot, and tells which of them a request meets.
//
// A request belongs to one route class, or to none, and meets every rule that
// matches its plan, its route class and the identities it has: an account, an
// IP address, a user name. Matching is done in memory, allocates nothing and
// locks nothing; a reload swaps the snapshot under requests that still hold the
// old one.
//
// # What a fault keeps
//
// Compile checks a whole ruleset, and names every fault at once. With a
// previous snapshot at hand a faulty edit does not take the limits away:
//
//   - A fault in the value of a rule or override keeps its last good version,
//     or leaves it out if it never had one. All the others take effect, so that
//     one bad rule does not hold up the mending of another.
//   - A fault in what gives things their names (domain, plans, routes, the id of
//     a rule, the rule and key of an override) keeps the whole previous snapshot:
//     it cannot be told which last good version is meant. So does a last good
//     version that is no longer valid beside the rest, such as one that names
//     a route class which is gone.
//
// Without a previous snapshot, at the start, any fault refuses the whole.
//
// # Changes
//
// The rules service sends changes, and Apply makes them one revision after
// another. 2026-12-02: an edit of one of 100,000 overrides must not copy them all,
// at every pod, within the second in which it is to be in force. Overrides are in
// maps of 1,024 parts, of which an edit copies the one that it touches: 35 KB among
// 100,000 overrides, 23 KB among 10. A ruleset of 40,000 overrides and 1,000 rules
// takes 24 MB. Weighed and left: a tree that shares its nodes, which costs each
// request a walk; one big map under a lock, which takes the snapshots away from
// requests that hold them. Rules, routes and plans are at most some thousands and are
// compiled anew as a whole; overrides of rules that come out as they were stay.
//
// Nothing is lost that no change is about, whatever is wrong with a change: what
// has something against an edit that is not its own holds that edit up. To drop an
// override that no longer fits its rule was tried first: a pod that does so has
// lifted a ban, and goes on without it when the rule has been mended.
//
// An edit that is being rolled out is a candidate: it counts beside its rule, as
// "<rule>@<version>", and one of the two is in shadow. See addCandidates.
//
// # Files
//
// A rule file is YAML 1.2 with the fields of shiplane.rules.v1.Ruleset, without
// those that a server sets. Enumerations are in lower case without their
// prefix, a rate is "10/s", a duration "24h" or "7d", a time RFC 3339, and a
// list of one text may be the text. Anchors, aliases, tags, merge keys and a
// second document are refused: they have no use in rules, and a few bytes of
// them can stand for gigabytes.
package ruleset
