// Package peers measures the checker beside other rate limit services, on the
// same Redis, by the same load: decisions a second, and processor time a decision.
//
// Each service is a process of its own with its defaults. They have their turns
// one after the other, again and again, so that what else the machine does falls
// on all of them. The load is native gRPC written by hand (load.go): so many calls
// in flight on a few connections, each made beforehand, for a client that takes as
// much processor time as a service hides what is measured.
//
// Two of the services are other people's: they are built from their modules in a
// folder outside the tree, and nothing of them is imported here.
//
// Nothing is timed against a bound. A run fails where a service does not answer
// as the scenario wants: then it is not what is to be measured.
package peers
