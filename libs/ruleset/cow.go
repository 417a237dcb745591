package ruleset

import "maps"

// cowParts is into how many parts a cow is split: an edit copies the list of them
// (8 KiB) and the parts that it touches, each of 100 entries where there are 100,000.
const cowParts = 1024

// cow is a map that is never changed: an edit makes another one, which shares all
// parts with the first that the edit did not touch. So a change of one of 100,000
// overrides copies a hundred. The zero cow is empty. Safe for concurrent use.
type cow[K comparable, V any] struct {
	parts *[cowParts]map[K]V // nil: empty
	hash  func(K) uint64     // nil while empty
	size  int
}

// get returns the value of a key, the zero value for none.
func (c *cow[K, V]) get(key K) V {
	if c.parts == nil {
		var none V
		return none
	}
	return c.parts[c.hash(key)%cowParts][key]
}

// all calls f for every entry, in no order.
func (c *cow[K, V]) all(f func(K, V)) {
	if c.parts == nil {
		return
	}
	for _, part := range c.parts {
		for key, value := range part {
			f(key, value)
		}
	}
}

// edit begins an edit. hash must be that of all edits of the map.
func (c *cow[K, V]) edit(hash func(K) uint64) *cowEdit[K, V] {
	return &cowEdit[K, V]{cow: *c, hash: hash}
}

// cowEdit is an edit under way. It is used by one goroutine.
type cowEdit[K comparable, V any] struct {
	cow   cow[K, V]
	hash  func(K) uint64
	owned *[cowParts]bool // parts that are this edit's own; nil before its first change
}

func (e *cowEdit[K, V]) get(key K) V { return e.cow.get(key) }

func (e *cowEdit[K, V]) put(key K, value V) {
	part := e.part(key)
	before := len(part)
	part[key] = value
	e.cow.size += len(part) - before
}

func (e *cowEdit[K, V]) drop(key K) {
	if e.cow.parts == nil {
		return
	}
	part := e.part(key)
	before := len(part)
	delete(part, key)
	e.cow.size += len(part) - before
}

// part returns the part of a key as one that may be changed.
func (e *cowEdit[K, V]) part(key K) map[K]V {
	if e.owned == nil {
		e.owned = new([cowParts]bool)
		parts := new([cowParts]map[K]V)
		if e.cow.parts != nil {
			*parts = *e.cow.parts
		}
		e.cow.parts, e.cow.hash = parts, e.hash
	}
	at := e.hash(key) % cowParts
	if !e.owned[at] {
		e.owned[at] = true
		if e.cow.parts[at] = maps.Clone(e.cow.parts[at]); e.cow.parts[at] == nil {
			e.cow.parts[at] = map[K]V{}
		}
	}
	return e.cow.parts[at]
}
