package loadgen

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/shiplane/limits/libs/limit"
)

// Stream is the traffic of one plan on one route. Streams of the same plan and
// key draw on one bucket, and are judged together.
type Stream struct {
	Plan   string      // its name in the report
	Key    string      // the key, or what the generated keys begin with
	Rate   limit.Rate  // requests sent per second
	Path   string      // begins with a slash; may carry a query
	Method string      //
	Cost   int64       // tokens that an admitted request spends
	Limit  limit.Limit // of each key of the plan; zero if nothing is to be compared
}

// UnmarshalText reads name=value pairs with commas between them, as in
// "plan=free,key=demo-free,rate=30/s,limit=10/s,burst=20". It reports every
// fault at once; plan and rate are required.
func (s *Stream) UnmarshalText(text []byte) error {
	*s = Stream{Path: "/", Method: "GET", Cost: 1}
	var faults []error
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(string(text), ",") {
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		switch {
		case !ok || value == "":
			faults = append(faults, fmt.Errorf("%.40q: want name=value", pair))
		case seen[name]:
			faults = append(faults, fmt.Errorf("%s is given twice", name))
		default:
			if err := s.set(name, value); err != nil {
				faults = append(faults, err)
			}
		}
		seen[name] = true
	}
	if s.Plan == "" && !seen["plan"] {
		faults = append(faults, errors.New("plan is missing"))
	}
	if s.Rate == 0 && !seen["rate"] {
		faults = append(faults, errors.New("rate is missing: want as in rate=30/s"))
	}
	if seen["limit"] != seen["burst"] {
		faults = append(faults, errors.New("limit and burst go together, as in limit=10/s,burst=20"))
	}
	return errors.Join(faults...)
}

func (s *Stream) set(name, value string) (err error) {
	switch name {
	case "plan":
		s.Plan = value
		return limit.ValidateName("plan", value)
	case "key":
		s.Key = value
		if !httpguts.ValidHeaderFieldValue(value) {
			return fmt.Errorf("key %.40q cannot stand in a header", value)
		}
	case "rate":
		s.Rate, err = limit.ParseRate(value)
	case "path":
		s.Path = value
		if _, err := url.ParseRequestURI(value); err != nil || value[0] != '/' || strings.Contains(value, "#") {
			return fmt.Errorf("path %.80q: want a path of a URL, beginning with / and without #", value)
		}
	case "method":
		s.Method = value
		if !httpguts.ValidHeaderFieldName(value) { // both are tokens of HTTP
			return fmt.Errorf("method %.20q: want a name, as in GET", value)
		}
	case "cost":
		s.Cost, err = whole("cost", value, limit.CostMax)
	case "limit":
		s.Limit.Rate, err = limit.ParseRate(value)
	case "burst":
		s.Limit.Burst, err = whole("burst", value, limit.BurstMax)
	default:
		return fmt.Errorf("field %.20q is none of plan, key, rate, path, method, cost, limit, burst", name)
	}
	return err
}

func whole(name, value string, most int64) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s is %.40q, want a whole number from 1 to %d", name, value, most)
	}
	return n, nil
}
