// Package convergence measures how changes of the rules reach the pods: real
// instances of the rules service, each a process, on one real PostgreSQL, and a
// fleet of pods that follow them as a gateway does.
//
// The time of a change runs from before it is asked for until a pod goes by it:
// the commit lies between the two. All clocks are this machine's.
//
// In each scenario rules are edited in a row, through all instances by turns, while
// nothing fails, while an instance is killed and comes back, or while PostgreSQL is
// killed and comes back. In the end every pod has to go by exactly what was
// acknowledged, and to have taken every revision in order. An edit whose answer was
// lost is looked up, as a careful client does.
//
// Size measures what a ruleset costs one pod, and what a change of a large one does.
package convergence
