package compare

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
)

// FieldValue is one field of an answer, as it is compared.
type FieldValue struct {
	Path  string `json:"path"`            // topics[~topic].partitions[0].errorCode
	Value string `json:"value"`           // after normalising
	Raw   string `json:"raw,omitempty"`   // as it came, when that is something else
	Rule  string `json:"rule,omitempty"`  // the normaliser that made Value
	Start int    `json:"start,omitempty"` // its bytes in the frame
	End   int    `json:"end,omitempty"`
}

// Normaliser is a rule by which values that must differ between two brokers are made comparable.
type Normaliser struct{ Name, Does string }

// Normalisers lists the rules, for the report.
var Normalisers = []Normaliser{
	{"id", "topic, producer, member, cluster, node and session ids, hosts, ports, log directories and the epochs of leaders and coordinators get a name at first sight within a case, by which they are compared from then on; null, empty and negative values stay, and so do a session id of 0 and a current leader beside an error that gives no reason to name it"},
	{"prefix", "the prefix of names that a run makes up is written ~"},
	{"clock", "a timestamp that the broker took from its clock during the run is <clock>; one that the scenario sent, counted from its now, is <now +N>"},
	{"stored", "in keys and values of __consumer_offsets ids of topics, ids that a broker gave to members and times of the run stand by their names"},
	{"text", "error messages and documentation are compared as null, empty or <text>; with --strict word for word"},
	{"size", "sizes of disks, and epochs of the metadata log, are <size> when they are not negative"},
	{"order", "arrays of structs are sorted by their keys, producers by their ids and aborted transactions by their first offsets, but for records, headers and synonyms and where the step says that order counts"},
	{"others", "topics, groups, transactional ids and config resources that the run did not make and did not ask for are left out"},
	{"cut off", "a last batch of a fetch of which a limit has cut the end off is left out; clients ignore it, and whole batches only are as good"},
	{"ignored", "fields that the step names, with its reason"},
	{"replay", "of a recorded session: ids, leader epochs and the epochs and generations of an id that the recorded broker gave are sent as the broker at hand gave them; times that clients recorded are <now +N>, counted from the session's beginning; what a broker was not ready for, and answered later, is sent until it is ready; topics and groups that no request of the session names are left out"},
}

// bound are the fields that get a name at first sight: field to kind.
var bound = map[string]string{
	"topicid": "topic id", "producerid": "producer id", "memberid": "member id", "clusterid": "cluster id",
	"nodeid": "node", "brokerid": "node", "leaderid": "node", "controllerid": "node", "replicanodes": "node",
	"isrnodes": "node", "offlinereplicas": "node", "eligibleleaderreplicas": "node", "lastknownelr": "node",
	"sessionid": "session id", "host": "host", "port": "port", "logdir": "log directory",
	"leaderepoch": "leader epoch", "partitionleaderepoch": "leader epoch", "currentleaderepoch": "leader epoch",
	"incarnationid": "uuid", "directoryid": "uuid", "leader": "member id", "coordinatorepoch": "coordinator epoch",
}

// clocks are the fields that hold times.
var clocks = []string{"logappendtimems", "timestamp", "basetimestamp", "maxtimestamp", "timestampdelta", "lasttimestamp", "transactionstarttimems"}

// sizes are the fields whose values say nothing about behaviour.
var sizes = []string{"totalbytes", "usablebytes", "finalizedfeaturesepoch"}

// keys are the fields that tell the elements of an array apart, in the order in which they make up its label.
var keys = []string{"name", "topic", "topicname", "topicid", "resourcetype", "resourcename", "partitionindex", "partition", "index", "groupid", "key", "keytype", "coordinatorkey", "nodeid", "brokerid", "apikey", "logdir", "transactionalid", "user", "mechanism", "feature", "groupinstanceid", "instanceid", "memberid", "entitytype", "entityname"}

// inOrder are the arrays whose order always counts.
var inOrder = []string{"records", "headers", "synonyms"}

// byNumber are the arrays of structs that have no order of their own, and the field whose number they are put in order by:
// producer ids are handed out in order, and a reader sorts aborted transactions by where they begin. Kafka:
// CompletedFetch.abortedTransactions.
var byNumber = map[string]string{"activeproducers": "producerId", "abortedtransactions": "firstOffset"}

// sets are the arrays of plain values that have no order.
var sets = []string{"subscribedtopicnames", "partitions"}

// nameFields are the fields by which elements of others are told.
var nameFields = []string{"name", "topicname", "topic", "resourcename", "groupid", "transactionalid"}

// partitionFields are the fields that hold the number of a partition.
var partitionFields = []string{"partition", "partitions", "partitionindex", "index"}

// listings are the answers that may name what the run did not make.
var listings = []string{"Metadata", "DescribeLogDirs", "DescribeTopicPartitions", "ListGroups", "ListConfigResources", "ListTransactions", "ElectLeaders", "ListPartitionReassignments"}

// normaliser makes the answers of one side of one case comparable.
type normaliser struct {
	prefix string
	strict bool
	// notBefore and notAfter bound the broker's clock during the run.
	notBefore, notAfter int64
	names               map[string]map[string]string // kind, then value, to name
	known               map[UUID]string              // topic ids of the topics that the case made
	now                 int64                        // the time that the scenario calls now
	sent                map[int64]bool               // times that it sent, counted from now
	groups              partitions                   // of __consumer_offsets, to the group that it keeps
}

func newNormaliser(prefix string, strict bool) *normaliser {
	return &normaliser{prefix: prefix, strict: strict, names: map[string]map[string]string{}, known: map[UUID]string{}, sent: map[int64]bool{}, groups: partitions{}}
}

// bind returns the name of a value of a kind, a new one at first sight.
func (n *normaliser) bind(kind, value string) string {
	if n.names[kind] == nil {
		n.names[kind] = map[string]string{}
	}
	name, ok := n.names[kind][value]
	if !ok {
		name = fmt.Sprintf("<%s %d>", kind, len(n.names[kind])+1)
		n.names[kind][value] = name
	}
	return name
}

// flatten turns an answer into its fields in order. asked are the names that stand in the request.
func (n *normaliser) flatten(api *API, root *Node, st *Step, asked []string) []FieldValue {
	w := walk{normaliser: n, step: st, asked: asked, filter: slices.Contains(listings, api.Name)}
	w.structure("", root)
	return w.out
}

type walk struct {
	*normaliser
	step   *Step
	asked  []string
	filter bool
	plain  bool // within a current leader that nobody is told of
	marker bool // within a batch that ends a transaction
	out    []FieldValue
}

func (w *walk) structure(at string, node *Node) {
	logAppendTime := false
	for _, c := range node.Children {
		if v, ok := c.Value.(int64); ok && c.Name == "attributes" {
			logAppendTime = v&8 != 0
		}
		if c.Name == "baseOffset" { // of a batch
			defer func(was bool) { w.marker = was }(w.marker)
			w.marker = isMarker(node)
		}
	}
	for _, c := range node.Children {
		p := join(at, c.Name)
		if why := w.ignored(p); why != "" {
			w.out = append(w.out, FieldValue{Path: p, Value: "<ignored>", Raw: short(c), Rule: "ignored", Start: c.Start, End: c.End})
			continue
		}
		switch c.Kind {
		case Struct:
			w.plain = untoldLeader(node, c)
			w.structure(p, c)
			w.plain = false
		case Array:
			w.array(p, c)
		default:
			w.leaf(p, c, logAppendTime)
		}
	}
}

// untoldLeader reports whether a field is the current leader of a partition whose error is none for which Kafka says who
// that is. It then holds what the message is made with, in ShareFetch a broker and an epoch 0, which look like those of a
// Kafka that was never restarted. Kafka: KafkaApis.handleFetchRequest, processShareFetchResponse,
// processShareAcknowledgeResponse.
func untoldLeader(partition, field *Node) bool {
	if field.Name != "currentLeader" {
		return false
	}
	code := partition.Child("errorCode")
	return code == nil || code.Value != int64(kerr.NotLeaderForPartition.Code) && code.Value != int64(kerr.FencedLeaderEpoch.Code)
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func (w *walk) ignored(p string) string {
	if w.step == nil {
		return ""
	}
	for _, i := range w.step.Ignore {
		if matchPath(i.Path, p) {
			return i.Why
		}
	}
	return ""
}

// noBrackets takes from paths what means something else to path.Match.
var noBrackets = strings.NewReplacer("[", "(", "]", ")", "/", "|")

// matchPath compares a path with a pattern in which [*] stands for any index or key and * for any part.
func matchPath(pattern, p string) bool {
	if pattern == p {
		return true
	}
	if end := pattern[strings.LastIndexAny(pattern, "*]")+1:]; !strings.HasSuffix(p, end) {
		return false
	}
	ok, err := path.Match(noBrackets.Replace(pattern), noBrackets.Replace(p))
	return ok && err == nil
}

func (w *walk) array(at string, node *Node) {
	items := node.Children
	labels := make([]string, len(items))
	if len(items) > 0 && items[0].Kind == Struct && !slices.Contains(inOrder, strings.ToLower(node.Name)) {
		items, labels = w.arrange(at, node.Name, items)
	}
	if len(items) > 0 && items[0].Kind == Leaf && slices.Contains(sets, strings.ToLower(node.Name)) {
		items = slices.Clone(items)
		slices.SortStableFunc(items, func(a, b *Node) int {
			return strings.Compare(fmt.Sprintf("%20v", a.Value), fmt.Sprintf("%20v", b.Value))
		})
	}
	w.out = append(w.out, FieldValue{Path: at + "[]", Value: fmt.Sprintf("%d elements", len(items)), Start: node.Start, End: node.End})
	seen := map[string]int{}
	for i, item := range items {
		label := labels[i]
		if label == "" {
			label = strconv.Itoa(i)
		}
		if seen[label]++; seen[label] > 1 {
			label = fmt.Sprintf("%s#%d", label, seen[label])
		}
		p := fmt.Sprintf("%s[%s]", at, label)
		if item.Kind == Struct {
			w.structure(p, item)
		} else {
			item.Name = node.Name
			w.leaf(p, item, false)
		}
	}
}

// arrange leaves out the elements of others, labels the rest by their keys, and sorts them by label unless order counts.
func (w *walk) arrange(at, name string, items []*Node) ([]*Node, []string) {
	type labelled struct {
		*Node
		label, sort string
	}
	var kept []labelled
	for _, item := range items {
		if w.filter && w.foreign(item) {
			continue
		}
		label, order := w.label(at, item)
		if n, ok := item.Child(byNumber[strings.ToLower(name)]).value().(int64); ok {
			order = fmt.Sprintf("%020d", n)
		}
		kept = append(kept, labelled{item, label, order})
	}
	ordered := w.step != nil && slices.ContainsFunc(w.step.Ordered, func(p string) bool { return matchPath(p, at) })
	if !ordered {
		slices.SortStableFunc(kept, func(a, b labelled) int { return strings.Compare(a.sort, b.sort) })
	}
	nodes, labels := make([]*Node, len(kept)), make([]string, len(kept))
	for i, k := range kept {
		nodes[i], labels[i] = k.Node, k.label
		if ordered {
			labels[i] = "" // by its place
		}
	}
	return nodes, labels
}

// foreign reports whether an element is named and neither made by the run nor asked for.
func (w *walk) foreign(item *Node) bool {
	for _, field := range nameFields {
		c := item.Child(field)
		if c == nil {
			continue
		}
		s, ok := c.Value.(string)
		// A group may be called "", a topic without a name is one that was asked for by its id.
		return ok && (s != "" || field == "groupid") && !strings.HasPrefix(s, w.prefix) && !slices.Contains(w.asked, s)
	}
	return false
}

// label is what tells an element apart, and the text it is sorted by.
func (w *walk) label(at string, item *Node) (label, order string) {
	var parts, orders []string
	if e := item.Child("entity"); e != nil { // of quotas: all that it is made of
		for _, part := range e.Children {
			text, _ := w.label(at, part)
			parts = append(parts, text)
		}
		slices.Sort(parts)
		orders = slices.Clone(parts)
	}
	for _, field := range keys {
		c := item.Child(field)
		if c == nil || c.Kind != Leaf || c.Value == nil {
			continue
		}
		switch v := c.Value.(type) {
		case string:
			if v == "" {
				continue
			}
			if field == "memberid" && len(parts) > 0 {
				continue // members that have a name of their own go by it
			}
			text := strings.ReplaceAll(v, w.prefix, "~")
			if kind := bound[field]; kind != "" {
				text = w.bind(kind, v)
			}
			parts, orders = append(parts, text), append(orders, text)
		case UUID:
			if len(parts) > 0 || v == (UUID{}) {
				continue
			}
			text := w.topicID(v)
			parts, orders = append(parts, text), append(orders, text)
		case int64:
			text := strconv.FormatInt(v, 10)
			if kind := bound[field]; kind != "" && v >= 0 {
				text = w.bind(kind, text)
			}
			if name := w.groupOf(at, field, v); name != "" {
				text = name
			}
			parts, orders = append(parts, text), append(orders, fmt.Sprintf("%020d", v))
		}
	}
	return strings.Join(parts, ","), strings.Join(orders, ",")
}

// groupOf is what a partition of __consumer_offsets is called when the scenario reads the group that it keeps: the
// prefix, and with it the number, are different on the two sides.
func (n *normaliser) groupOf(at, field string, v int64) string {
	if group := n.groups[v]; group != "" && strings.Contains(at, "__consumer_offsets") && slices.Contains(partitionFields, field) {
		return "<partition of " + strings.ReplaceAll(group, n.prefix, "~") + ">"
	}
	return ""
}

func (n *normaliser) topicID(id UUID) string {
	if name, ok := n.known[id]; ok {
		return "<id of " + strings.ReplaceAll(name, n.prefix, "~") + ">"
	}
	if id == (UUID{}) {
		return id.String()
	}
	return n.bind("topic id", id.String())
}

func (w *walk) leaf(at string, c *Node, logAppendTime bool) {
	raw := valueText(c.Name, c.Value)
	f := FieldValue{Path: at, Value: raw, Start: c.Start, End: c.End}
	name := strings.ToLower(c.Name)
	rule := func(rule, value string) {
		f.Value, f.Rule = value, rule
		if value != raw {
			f.Raw = raw
		}
	}
	switch v := c.Value.(type) {
	case string:
		switch {
		case bound[name] != "" && v != "":
			rule("id", w.bind(bound[name], v))
		case isText(name) && !w.strict && v != "":
			rule("text", "<text>")
		case w.prefix != "" && strings.Contains(v, w.prefix):
			rule("prefix", strconv.Quote(strings.ReplaceAll(v, w.prefix, "~")))
		}
	case []byte:
		if w.marker && (name == "value" || name == "body") {
			rule("id", w.endMarker(v))
		} else if isStored(at, name) {
			rule("stored", valueText(c.Name, w.stored(v)))
		} else if w.prefix != "" && bytes.Contains(v, []byte(w.prefix)) {
			rule("prefix", valueText(c.Name, bytes.ReplaceAll(v, []byte(w.prefix), []byte("~"))))
		}
	case UUID:
		if name == "topicid" {
			rule("id", w.topicID(v))
		} else if v != (UUID{}) {
			rule("id", w.bind("uuid", v.String()))
		}
	case int64:
		group := w.groupOf(at, name, v)
		switch {
		case group != "":
			rule("prefix", group)
		case bound[name] != "" && !w.plain && (v > 0 || v == 0 && name != "sessionid"):
			rule("id", w.bind(bound[name], strconv.FormatInt(v, 10)))
		case slices.Contains(clocks, name) && w.sent[v]:
			rule("clock", fmt.Sprintf("<now %+d>", v-w.now))
		case slices.Contains(clocks, name) && w.notBefore <= v && v <= w.notAfter:
			rule("clock", "<clock>")
		case slices.Contains(clocks, name) && logAppendTime && name == "timestampdelta":
		case slices.Contains(sizes, name) && v >= 0:
			rule("size", "<size>")
		}
	}
	w.out = append(w.out, f)
}

// isText reports whether a field holds words for people.
func isText(name string) bool {
	return strings.HasSuffix(name, "errormessage") || name == "documentation"
}

// longBytes is how many bytes are printed; of more, their number and checksum tell them apart.
const longBytes = 512

// valueText prints a value for people: error codes with their names, bytes as text where they are text.
func valueText(name string, v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(v)
	case []byte:
		if len(v) > longBytes {
			return fmt.Sprintf("%d bytes, SHA-256 %x, 0x%x…", len(v), sha256.Sum256(v), v[:16])
		}
		if len(v) > 0 && utf8.Valid(v) && !strings.ContainsFunc(string(v), func(r rune) bool { return r < ' ' }) {
			return strconv.Quote(string(v))
		}
		return "0x" + hex.EncodeToString(v)
	case int64:
		if strings.HasSuffix(strings.ToLower(name), "errorcode") {
			return fmt.Sprintf("%d %s", v, errorName(v))
		}
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprint(v)
}

// errorName is Kafka's name of an error code.
func errorName(code int64) string {
	if code == 0 {
		return "NONE"
	}
	if e := kerr.TypedErrorForCode(int16(code)); e != nil && int64(e.Code) == code {
		return e.Message
	}
	return "unknown to this tool"
}

// short is an ignored value in few words.
func short(n *Node) string {
	if n.Kind != Leaf {
		return fmt.Sprintf("%d inside", len(n.Children))
	}
	return valueText(n.Name, n.Value)
}
