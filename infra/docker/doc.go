// Package docker holds the images' Dockerfile, and checks what can be checked of it
// without a container engine: how its stages are made, that what it copies is all
// that the services are compiled from, and that its own build line compiles them for
// both architectures.
package docker
