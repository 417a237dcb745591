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
// # Files
//
// A rule file is YAML 1.2 with the fields of shiplane.rules.v1.Ruleset, without
// those that a server sets. Enumerations are in lower case without their
// prefix, a rate is "10/s", a duration "24h" or "7d", a time RFC 3339, and a
// list of one text may be the text. Anchors, aliases, tags, merge keys and a
// second document are refused: they have no use in rules, and a few bytes of
// them can stand for gigabytes.
package ruleset
