package limit

import (
	"strconv"
	"strings"
)

// CandidateID is the ID of a rule's edit while it is being rolled out: it counts
// beside the rule, under a tag of its own. No rule can be named so.
func CandidateID(rule string, version int64) string {
	return rule + "@" + strconv.FormatInt(version, 10)
}

// Name is what people know the rule by: its ID, of a candidate that of the rule
// that it is to replace.
func (r *Rule) Name() string {
	if at := strings.IndexByte(r.ID, '@'); at >= 0 {
		return r.ID[:at]
	}
	return r.ID
}
