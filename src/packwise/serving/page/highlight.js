// Colours for code: comments, strings, numbers and the words of the language.

import { el } from "./dom.js";

const words = (text) => new Set(text.split(" "));
const SCRIPT = words("and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield match case None True False self");
const CURLY = words("abstract as async await bool boolean break byte case catch char class const constexpr continue default defer delete do double else enum export extends extern false final finally float fn for func function go goto if impl implements import in instanceof int interface let long loop match mod move mut namespace new nil null nullptr package private protected pub public range return self short signed sizeof static string struct super switch template this throw throws trait true try type typedef typename typeof undefined union unsafe unsigned use using var virtual void volatile where while yield");
const SHELL = words("if then else elif fi for in do done while until case esac function return export local readonly set unset source echo cd exit sudo");
const QUERY = words("select from where and or not in is null join left right inner outer full on group by having order asc desc limit offset insert into values update set delete create table index view drop alter add primary key foreign references distinct as union all case when then else end with exists between like count sum avg min max");
const DATA = words("true false null yes no on off");

const FAMILIES = {
  script: { words: SCRIPT, comment: /#[^\n]*/, names: "python py ruby rb python3 pycon" },
  curly: { words: CURLY, comment: /\/\/[^\n]*|\/\*[\s\S]*?\*\//, names: "js javascript jsx ts typescript tsx java c h cpp c++ cs csharp go rust rs kotlin swift php scala dart css scss" },
  shell: { words: SHELL, comment: /(?<=^|\s)#[^\n]*/, names: "sh bash shell zsh console powershell dockerfile make makefile" },
  query: { words: QUERY, comment: /--[^\n]*|\/\*[\s\S]*?\*\//, names: "sql postgresql sqlite mysql cypher" },
  data: { words: DATA, comment: /(?<=^|\s)#[^\n]*|<!--[\s\S]*?-->/, names: "yaml yml toml ini json jsonc xml html svg env" },
};
const BY_NAME = new Map(Object.values(FAMILIES).flatMap((family) => family.names.split(" ").map((name) => [name, family])));
const STRING = /"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`/;
const LONGEST = 40000;

/** The code as text and coloured spans. */
export function highlighted(code, language) {
  const family = BY_NAME.get((language ?? "").toLowerCase()) ?? guess(code);
  if (!family || code.length > LONGEST) return [code];
  const token = new RegExp(`(?<comment>${family.comment.source})|(?<string>${STRING.source})|(?<number>(?<![\\w.])\\d[\\d_]*(?:\\.\\d+)?(?:e[+-]?\\d+)?\\b)|(?<word>[A-Za-z_]\\w*)`, "gi");
  const parts = [];
  let from = 0;
  for (const found of code.matchAll(token)) {
    const { comment, string, number, word } = found.groups;
    const known = word && family.words.has(family === FAMILIES.query ? word.toLowerCase() : word);
    const kind = comment ? "comment" : string ? "string" : number ? "number" : known ? "word" : null;
    if (!kind) continue;
    parts.push(code.slice(from, found.index), el("span", { class: `code-${kind}` }, found[0]));
    from = found.index + found[0].length;
  }
  parts.push(code.slice(from));
  return parts;
}

function guess(code) {
  if (/^\s*(?:async\s+)?(?:def|class)\s+\w[^{};\n]*:\s*$/m.test(code)) return FAMILIES.script;
  if (/^\s*(?:def|class|from|import)\s+\w[\w.]*.*(?::|import|$)/m.test(code) && !/[;{]\s*$/m.test(code)) return FAMILIES.script;
  if (/^\s*(?:select|insert|update|create|delete)\s/i.test(code)) return FAMILIES.query;
  if (/[;{]\s*$/m.test(code)) return FAMILIES.curly;
  if (/^\s*(?:\$ |sudo |cd |pip |npm |git |export |curl )/m.test(code)) return FAMILIES.shell;
  return null;
}

/** A block of code with a button that copies it. */
export function codeBlock(code, language, content = null) {
  const copy = el("button", { type: "button", class: "copy-code quiet", onclick: async () => {
    await navigator.clipboard.writeText(code);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  } }, "Copy");
  return el("div", { class: "code" }, copy,
    el("pre", { tabindex: "0", role: "group", "aria-label": language ? `Code, ${language}` : "Code" }, el("code", {}, content ?? highlighted(code, language))));
}
