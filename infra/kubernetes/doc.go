// Package kubernetes holds the manifests of the services, and checks what can be
// checked of them without a cluster: that every region builds and decodes strictly
// into the types of Kubernetes, that the objects fit each other and the services,
// and that each container starts with the very arguments, environment and files of
// its pod.
package kubernetes
