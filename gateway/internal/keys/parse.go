package keys

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/shiplane/limits/libs/ruleset"
)

// Bounds of a key file.
const (
	FileMax = 16 << 20 // bytes: about 140,000 keys, which take some seconds to read
	idMax   = 64       // bytes of an account or a plan
	nameMax = 128      // bytes

	colonColumnMax = 256 // of a colon outside braces: each level of nesting is further right
)

// Parse reads a key file. The error is a ruleset.Faults with all that is wrong,
// by line. A file without keys is refused: it is more likely truncated than meant.
func Parse(text []byte) (*Set, error) {
	root, err := parseYAML(text)
	if err != nil {
		return nil, err
	}
	r := reader{
		set:      &Set{keys: make(map[[sha256.Size]byte]*Key, len(root.Values))},
		lines:    make(map[[sha256.Size]byte]int, len(root.Values)),
		accounts: make(map[string]planUse, len(root.Values)),
	}
	for i, node := range root.Values {
		r.entry(i, node)
	}
	if len(r.faults) > 0 {
		return nil, r.faults
	}
	return r.set, nil
}

// parseYAML returns the list that the file is.
func parseYAML(text []byte) (*ast.SequenceNode, error) {
	switch {
	case len(text) > FileMax:
		return nil, whole(fmt.Sprintf("has %d bytes: at most %d are allowed", len(text), FileMax))
	case !utf8.Valid(text):
		return nil, whole("is not UTF-8")
	case bytes.IndexByte(text, 0) >= 0:
		return nil, whole("holds a NUL byte: want text")
	}
	tokens := lexer.Tokenize(string(text))
	if err := flat(tokens); err != nil {
		return nil, err
	}
	// Fields that stand twice are found by the reader, all of them.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		problem, at := err.Error(), yaml.Error(nil)
		if errors.As(err, &at) {
			return nil, ruleset.Faults{faultAt(at.GetToken(), "keys", "", "is no valid YAML: "+at.GetMessage())}
		}
		return nil, whole("is no valid YAML: " + problem)
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			return nil, ruleset.Faults{faultAt(doc.Body.GetToken(), "keys", "", "has a second document: want one")}
		}
		body = doc.Body
	}
	root, ok := body.(*ast.SequenceNode)
	if !ok || len(root.Values) == 0 {
		return nil, whole("holds no list of keys: want at least one, as in\n  - {hash: sha256:…, account: acct_7Q2, plan: growth}")
	}
	return root, nil
}

// flat refuses what a flat list of texts has no use for and what a YAML parser
// can be led astray by: aliases that multiply, and nesting, at which it calls
// itself and takes time in the square of the depth.
func flat(tokens token.Tokens) error {
	var faults ruleset.Faults
	depth, column := 0, 0
	for _, tk := range tokens {
		problem := ""
		switch tk.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType, token.DirectiveType, token.MappingKeyType:
			problem = "is not supported here"
		case token.SequenceEntryType:
			if column == 0 {
				column = tk.Position.Column
			}
			if tk.Position.Column != column {
				problem = fmt.Sprintf("begins an entry out of line: want all in column %d", column)
			}
		case token.MappingStartType, token.SequenceStartType:
			if depth++; depth > 2 { // [{…}]
				problem = "is nested too deep"
			}
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.MappingValueType:
			if tk.Position.Column > colonColumnMax && depth == 0 {
				problem = "stands too far right"
			}
		}
		if problem != "" {
			faults = append(faults, faultAt(tk, "keys", fmt.Sprintf("%.20q", strings.TrimSpace(tk.Value)), problem))
			if depth > 2 {
				break
			}
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// reader collects keys and faults.
type reader struct {
	set      *Set
	lines    map[[sha256.Size]byte]int // where a hash stood first
	accounts map[string]planUse        // the plan of an account, and where it stood first
	faults   ruleset.Faults
}

func (r *reader) fault(node ast.Node, path, value, problem string) {
	r.faults = append(r.faults, faultAt(node.GetToken(), path, value, problem))
}

// entry reads one key into the set.
func (r *reader) entry(i int, node ast.Node) {
	path := fmt.Sprintf("keys[%d]", i)
	mapping, ok := node.(ast.MapNode)
	if !ok {
		r.fault(node, path, "", "want a mapping of hash, account, plan and perhaps name")
		return
	}
	var hash string
	key := &Key{}
	fields := map[string]*string{"hash": &hash, "account": &key.Account, "plan": &key.Plan, "name": &key.Name}
	nodes := map[string]ast.Node{}
	before := len(r.faults)
	for pair := mapping.MapRange(); pair.Next(); {
		name := pair.Key().GetToken().Value
		into, known := fields[name]
		switch text, isText := textOf(pair.Value()); {
		case !known:
			r.fault(pair.Key(), fmt.Sprintf("%s.%.32s", path, name), "", "unknown field: want hash, account, plan or name")
		case nodes[name] != nil:
			r.fault(pair.Key(), path+"."+name, "", "stands twice")
		case !isText:
			r.fault(pair.Key(), path+"."+name, "", "want a text")
		default:
			*into, nodes[name] = text, pair.Value()
		}
	}
	for _, name := range [...]string{"hash", "account", "plan"} {
		if nodes[name] == nil && len(r.faults) == before {
			r.fault(node, path+"."+name, "", "is missing")
		}
	}
	if len(r.faults) > before {
		return
	}
	r.add(i, path, hash, key, nodes)
}

// add checks the values of an entry that has all fields, and adds it.
func (r *reader) add(i int, path, hash string, key *Key, nodes map[string]ast.Node) {
	before := len(r.faults)
	sum, ok := parseHash(hash)
	if !ok {
		// The value may be a key, written here by mistake: it is not repeated.
		r.fault(nodes["hash"], path+".hash", "", fmt.Sprintf("has %d characters: want %s and 64 hexadecimal digits, as gateway hash-key prints", len(hash), hashPrefix))
	}
	if !visible(key.Account) {
		r.fault(nodes["account"], path+".account", fmt.Sprintf("%.80q", key.Account), fmt.Sprintf("want 1 to %d visible ASCII characters, no spaces", idMax))
	}
	if !visible(key.Plan) || key.Plan == ruleset.PlanAnonymous {
		r.fault(nodes["plan"], path+".plan", fmt.Sprintf("%.80q", key.Plan), "want a plan of the rules, not "+ruleset.PlanAnonymous)
	}
	if len(key.Name) > nameMax {
		r.fault(nodes["name"], path+".name", fmt.Sprintf("%.20q…", key.Name), fmt.Sprintf("has %d bytes: at most %d are allowed", len(key.Name), nameMax))
	}
	at := nodes["plan"].GetToken().Position
	use := planUse{entry: i, plan: key.Plan, line: at.Line, column: at.Column}
	if first, seen := r.accounts[key.Account]; seen && first.plan != key.Plan {
		r.fault(nodes["plan"], path+".plan", fmt.Sprintf("%.80q", key.Plan),
			fmt.Sprintf("account %q has plan %q in line %d: an account has one plan", key.Account, first.plan, first.line))
	} else if !seen {
		r.accounts[key.Account] = use
	}
	if line, seen := r.lines[sum]; ok && seen {
		r.fault(nodes["hash"], path+".hash", "", fmt.Sprintf("is the key of line %d", line))
	}
	if len(r.faults) > before {
		return
	}
	r.set.keys[sum] = key
	r.lines[sum] = nodes["hash"].GetToken().Position.Line
	r.set.plans = append(r.set.plans, use)
}

func parseHash(text string) (sum [sha256.Size]byte, ok bool) {
	digits, ok := strings.CutPrefix(text, hashPrefix)
	if !ok || len(digits) != hex.EncodedLen(len(sum)) {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(digits))
	return sum, err == nil
}

// visible reports whether text can be an id: it stands in logs and in the store's keys.
func visible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && len(text) <= idMax
}

// textOf returns the text of a value; an account may well look like a number.
func textOf(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// whole is the fault of a file that cannot be read at all.
func whole(problem string) error { return ruleset.Faults{{Path: "keys", Problem: problem}} }

func faultAt(tk *token.Token, path, value, problem string) ruleset.Fault {
	f := ruleset.Fault{Path: path, Value: value, Problem: problem}
	if tk != nil && tk.Position != nil {
		f.Line, f.Column = tk.Position.Line, tk.Position.Column
	}
	return f
}
