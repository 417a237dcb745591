// Package command is what the command lines of all services have in common: how
// they are read, how their faults are told, and the flags that every one of them
// has. A service embeds the groups of flags that it needs in the structure that
// kong fills.
//
// Flags are read as text and checked by the service in one go, so that everything
// that is wrong is said at once, each fault with its flag, its value and what is
// allowed. Every flag has an environment variable, SHIPLANE_ and its name.
package command
