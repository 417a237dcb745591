// Writes the schema of a Terraform provider, as "terraform providers schema -json" would, for chosen types, from the
// typed bindings that are generated from it and published as @cdktn/provider-aws:
//
//	node extract.js PACKAGE_DIR OUT.json TYPE...    (aws_vpc, ephemeral.aws_x)
//
// A binding turns a configuration into HCL by calling the runtime's converters (stringToHclTerraform, listMapperHcl, ...)
// in the order of the schema. Here these converters are stand-ins that answer with a type instead of a value, so that the
// HCL of an empty configuration is the schema's attributes and blocks. Flags (computed, optional, required) stand in
// comments that the generator writes.
'use strict';
const fs = require('fs');
const path = require('path');
const Module = require('module');

// ---- stand-ins for the runtime

const type = (t) => ({ type: t });
const converter = (t) => () => type(t);
const mapper = (kind) => (convert, isBlock) => () => ({ collection: kind, inner: convert({}), isBlock: !!isBlock });

class Construct {
  constructor() {
    this.cdktfProperties = {};
  }
  markWriteOnlyAttribute(v) {
    return { type: v.type, writeOnly: true };
  }
  getStringAttribute() {
    return type('string');
  }
  getNumberAttribute() {
    return type('number');
  }
  getBooleanAttribute() {
    return type('bool');
  }
  getListAttribute() {
    return type(['list', 'string']);
  }
  getNumberListAttribute() {
    return type(['list', 'number']);
  }
  getStringMapAttribute() {
    return type(['map', 'string']);
  }
  getNumberMapAttribute() {
    return type(['map', 'number']);
  }
  getBooleanMapAttribute() {
    return type(['map', 'bool']);
  }
  getAnyMapAttribute() {
    return type(['map', 'dynamic']);
  }
  interpolationForAttribute() {
    return type('dynamic');
  }
}
class ComplexObject extends Construct {
  constructor() {
    super();
    this.isComplex = true;
  }
  get internalValue() {
    return {};
  }
}
class ComplexList extends ComplexObject {
  constructor(parent, attribute, wrapsSet) {
    super();
    this.isList = true;
    this.wrapsSet = wrapsSet;
    this.terraformResource = parent;
    this.terraformAttribute = attribute;
  }
}
class ComplexMap extends ComplexObject {
  constructor(parent, attribute) {
    super();
    this.isMap = true;
    this.terraformResource = parent;
    this.terraformAttribute = attribute;
  }
}
const listOf = (t) =>
  class extends ComplexList {
    get elements() {
      return t;
    }
  };
const mapOf = (t) =>
  class extends ComplexMap {
    get elements() {
      return t;
    }
  };

// A set is a list that the bindings bring into order by Fn.tolist.
const functions = new Proxy(
  {},
  { get: (_, name) => (x) => (name === 'tolist' && Array.isArray(x?.type) && x.type[0] === 'list' ? type(['set', x.type[1]]) : x) },
);

const runtime = new Proxy(
  {
    TerraformResource: Construct,
    TerraformProvider: Construct,
    TerraformEphemeralResource: Construct,
    ComplexObject,
    ComplexList,
    ComplexMap,
    ComplexComputedList: ComplexObject,
    StringMapList: listOf(['map', 'string']),
    NumberMapList: listOf(['map', 'number']),
    StringListList: listOf(['list', 'string']),
    StringMap: mapOf('string'),
    NumberMap: mapOf('number'),
    BooleanMap: mapOf('bool'),
    ImportableResource: class {},
    canInspect: () => true,
    isComplexElement: () => false,
    Tokenization: { isResolvable: () => false },
    Fn: functions,
    Token: new Proxy({}, { get: () => (x) => x }),
    stringToHclTerraform: converter('string'),
    numberToHclTerraform: converter('number'),
    booleanToHclTerraform: converter('bool'),
    anyToHclTerraform: converter('dynamic'),
    objectToHclTerraform: converter('dynamic'),
    listMapperHcl: mapper('list'),
    hashMapperHcl: mapper('map'),
    asAttribute: (v) => ({ ...v, attributeMode: true }),
  },
  { get: (known, name) => (name in known ? known[name] : /ToTerraform$|Mapper$/.test(String(name)) ? () => ({}) : undefined) },
);

const load = Module._load;
Module._load = (request, ...rest) => (request === 'cdktn' ? runtime : load.call(Module, request, ...rest));

// ---- what a binding says

// flagsOf reads the generator's comments: class -> attribute -> flags.
function flagsOf(source) {
  const flags = {};
  let current = null;
  for (const line of source.split('\n')) {
    const begins = /^class (\w+) extends/.exec(line);
    if (begins) current = flags[begins[1]] = {};
    const flag = /^\s+\/\/ (\S+) - computed: (true|false), optional: (true|false), required: (true|false)/.exec(line);
    if (flag && current) current[flag[1]] = { computed: flag[2] === 'true', optional: flag[3] === 'true', required: flag[4] === 'true' };
  }
  return flags;
}

// member finds the property of a binding for an attribute: camel case, which the generator spells in several ways.
function member(object, attribute) {
  const camel = attribute.replace(/_([a-z0-9])/g, (_, c) => c.toUpperCase());
  for (const name of [camel, `${camel}Attribute`]) if (name in object) return object[name];
  const plain = attribute.replace(/_/g, '').toLowerCase();
  for (let p = object; p && p !== Object.prototype; p = Object.getPrototypeOf(p))
    for (const name of Object.getOwnPropertyNames(p)) if (name.toLowerCase() === plain) return object[name];
  return undefined;
}

function typeOfObject(object, flags) {
  const names = Object.keys(flags[object.constructor.name] ?? {});
  return ['object', Object.fromEntries(names.map((n) => [n, typeOfMember(member(object, n), flags, n)]))];
}

function typeOfMember(value, flags, name) {
  if (value?.type) return value.type;
  if (value?.isMap) return ['map', value.elements ?? typeOfObject(value.get('x'), flags)];
  if (value?.isList) return [value.wrapsSet ? 'set' : 'list', value.elements ?? typeOfObject(value.get(0), flags)];
  if (value?.isComplex) return typeOfObject(value, flags);
  if (Array.isArray(value)) return ['list', typeof value[0] === 'object' ? value[0].type : 'string'];
  throw new Error(`${name}: no type`);
}

function typeOfValue(value, name) {
  if (value?.type) return value.type;
  if (value?.collection) return [value.collection, typeOfValue(value.inner, name)];
  throw new Error(`${name}: no type`);
}

const shown = (flags) => ({
  ...(flags.required ? { required: true } : {}),
  ...(!flags.required && flags.optional ? { optional: true } : {}),
  ...(flags.computed ? { computed: true } : {}),
});

// blockOf builds a block from its HCL, the flags of its class and an instance of that.
function blockOf(hcl, own, instance, flags) {
  const block = { attributes: {}, block_types: {} };
  for (const name of Object.keys(own)) // what only the provider decides is in no HCL
    if (!(name in hcl)) block.attributes[name] = { type: typeOfMember(member(instance, name), flags, name), ...shown(own[name]) };
  for (const [name, part] of Object.entries(hcl)) {
    if (name === 'alias') continue; // of the provider's block: Terraform's own
    const flag = own[name] ?? { optional: true };
    if (part.isBlock) addBlock(block, name, part, flag, instance, flags);
    else block.attributes[name] = { ...attributeOf(name, part), ...shown(flag) };
  }
  return block;
}

function attributeOf(name, part) {
  const found = typeOfValue(part.value, name);
  const kind = part.value.collection && ['set', 'map', 'list'].includes(part.type) ? [part.type, found[1]] : found;
  return { type: kind, ...(part.value.writeOnly ? { write_only: true } : {}) };
}

function addBlock(block, name, part, flag, instance, flags) {
  const many = part.value.collection;
  const hcl = many ? part.value.inner : part.value;
  let inner = instance && member(instance, name);
  if (inner?.isList) inner = inner.get(0);
  const nested = blockOf(hcl, flags[inner?.constructor.name] ?? {}, inner, flags);
  if (Object.values(hcl).some((p) => p.value?.attributeMode)) {
    // An attribute that may be written as blocks.
    const members = Object.entries(nested.attributes).map(([n, a]) => [n, a.type]);
    block.attributes[name] = { type: [part.type, ['object', Object.fromEntries(members)]], ...shown(flag) };
    return;
  }
  const nesting = part.type === 'struct' ? 'single' : part.type;
  block.block_types[name] = {
    nesting_mode: nesting,
    block: nested,
    ...(flag.required ? { min_items: 1 } : {}),
    ...(!many && nesting !== 'single' ? { max_items: 1 } : {}),
  };
}

// ---- files

function schemaOf(packageDir, folder) {
  const file = path.join(packageDir, 'lib', folder, 'index.js');
  const source = fs.readFileSync(file, 'utf8');
  // An empty configuration must be converted whole: not skipped, and without failing at members that are not there.
  const edited = source
    .replace(/struct\.\w+ === undefined \? null : (.*),$/gm, 'cdktn.asAttribute($1),')
    .replace(/isEmptyObject = false;/g, 'isEmptyObject = true;')
    .replace(/\bstruct\./g, '(struct ?? {}).');
  const binding = new Module(file, module);
  binding.filename = file;
  binding.paths = Module._nodeModulePaths(path.dirname(file));
  binding._compile(edited, file);
  const [name, Class] = Object.entries(binding.exports).find(([, v]) => typeof v === 'function' && v.tfResourceType);
  const instance = new Class({}, 'x', {});
  const flags = flagsOf(source);
  return { version: 0, block: blockOf(instance.synthesizeHclAttributes(), flags[name], instance, flags) };
}

const [, , packageDir, out, ...types] = process.argv;
const provider = { provider: schemaOf(packageDir, 'provider'), resource_schemas: {}, ephemeral_resource_schemas: {} };
for (const name of types) {
  const [, ephemeral, rest] = /^(ephemeral\.)?aws_(.+)$/.exec(name);
  const folder = (ephemeral ? 'ephemeral-aws-' : '') + rest.replace(/_/g, '-');
  provider[ephemeral ? 'ephemeral_resource_schemas' : 'resource_schemas'][`aws_${rest}`] = schemaOf(packageDir, folder);
}
fs.writeFileSync(out, JSON.stringify({ format_version: '1.0', provider_schemas: { 'registry.terraform.io/hashicorp/aws': provider } }, null, 1));
