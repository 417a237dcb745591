// Package feed is the pods' end of the rules service: it watches the rules of one
// domain, keeps the last good ones in memory and on disk, and reports what they
// decide.
//
// # What holds
//
//   - The rules in force are never taken away. A service that cannot be reached, a
//     message that cannot be read, a change with a fault leave what was.
//   - One bad item does not hold up the others: it keeps its last good version, or is
//     left out if it has none, is logged once and reported until it is mended. After
//     a fault the next watch asks for the whole: what the service has not sent again
//     could not be mended otherwise.
//   - Nothing is missed: changes lead from the revision that the pod has to the next,
//     or the pod asks anew with the one that it has.
//   - A pod that starts has the rules of its last run at once, from the copy on disk,
//     whether the service is there or not. Without a copy it has none until the
//     service is heard: Ready says so, and Current is nil. What to do with requests
//     until then is the caller's to decide, who must not let them pass unlimited.
//   - Overrides start and end by the service's clock (Now), however wrong this
//     machine's is, once the service was heard.
//   - The path of a request waits for nothing here: Current and Now are one load of a
//     pointer each, Tally one look-up.
//
// # Connections
//
// HTTP/1.1 is spoken, with and without TLS: every proxy lets a response stream over
// it, and the service spends half of the CPU time on it that HTTP/2 takes. It costs
// a second connection for reports, which go to the address that is being watched and
// never elsewhere, so that pods of an absent service make no connections for them.
//
// An address that is silent for three times its heartbeat is given up for another
// one. How attempts are spread over time and addresses is said in pace.go.
package feed
