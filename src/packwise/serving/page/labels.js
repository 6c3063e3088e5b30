// What the records' names mean, in plain words.

export const REASONS = {
  below_quality: ["a stub", "Too short, and not in the question's words."],
  duplicate_of: ["a repeat", "Says what a better passage says."],
  merged_into: ["in already", "All its text is there as part of another passage."],
  per_document_cap: ["article is full", "Its article has given as many passages as it may."],
  per_section_cap: ["section is full", "Its section has given as many passages as it may."],
  low_novelty: ["nothing new", "Too much like something that is in."],
  low_value: ["not worth its tokens", "Brings too little for the room it takes."],
  over_budget: ["no room left", "Would be in, had the budget room for it."],
  other_articles: ["other article", "Its article, or its section, is not among those taken up."],
  same_text: ["same text", "The same text is stored twice."],
  gated: ["held back", "Nothing was packed: the confidence was below the threshold."],
};

export const STAGES = {
  cache: ["memory", "Asked a moment ago: the ranking was remembered."],
  expansion: ["expansion", "Other phrasings of the question."],
  embed: ["embed", "The question as a vector."],
  vector: ["meaning", "Passages near it in meaning."],
  keyword: ["words", "Passages that share its words (BM25)."],
  complete: ["complete", "Each side scores what only the other found."],
  phrasings: ["phrasings", "The other phrasings, searched as well."],
  fusion: ["fusion", "Both lists become one."],
  fetch: ["fetch", "The passages are read; the same text is shown once."],
  cross_encoder: ["cross-encoder", "Reads question and passage together."],
  graph: ["graph", "Follows names and links from the best passages."],
  mmr: ["spread", "Spreads the list out."],
  confidence: ["confidence", "How likely it is that the answer is in what was found."],
  gate: ["gate", "Is anything close enough to the question?"],
  documents: ["articles", "The best articles, and a few sections of each."],
  packing: ["packing", "Passages are chosen to fit the budget."],
  few_shot: ["examples", "Examples for the language model."],
  synthesis: ["writing", "The language model writes."],
  extract: ["sentences", "The sentences that answer are picked."],
  knowledge: ["names", "Names and facts in what was taken."],
};

export const COLUMNS = {
  vector: "meaning",
  keyword: "words",
  fusion: "fusion",
  cross_encoder: "cross-enc.",
  graph: "graph",
  final: "final",
};

export const SCORES = {
  vector: "cosine, as the embedder gives it",
  similarity: "the cosine on the common scale",
  bm25: "BM25",
  keyword: "BM25 as a share of its upper bound",
  combined: "both legs, weighted",
  rrf: "reciprocal ranks",
  cross: "the cross-encoder's",
  graph: "what the graph added",
  final: "what the list is sorted by",
};

/** A stage's notes as one short line. */
export function stageNote(stage) {
  const { name } = stage;
  if (name === "vector" || name === "keyword") return `${stage.found} found`;
  if (name === "complete") return `${stage.rescored} rescored`;
  if (name === "fusion") return `${stage.candidates}, at ${stage.weights.map((w) => w.toFixed(2)).join(" : ")}`;
  if (name === "cross_encoder") return `${stage.read} read`;
  if (name === "graph") return stage.held_back ? "held back" : stage.bonuses ? `${stage.bonuses.length} lifted` : "";
  if (name === "confidence") return stage.probability === undefined || stage.probability === null ? "" : `${Math.round(stage.probability * 100)}% likely`;
  if (name === "gate") return stage.passed ? `${stage.confidence.toFixed(2)} ≥ ${stage.threshold}` : `${stage.confidence.toFixed(2)} < ${stage.threshold}`;
  if (name === "documents") return `${stage.articles} articles, ${stage.passages} passages`;
  if (name === "packing") return `${stage.tokens} of ${stage.budget} tokens`;
  if (name === "synthesis") return stage.model ?? "";
  if (name === "extract") return stage.sentences === 1 ? "1 sentence" : `${stage.sentences} sentences`;
  if (name === "expansion") return `${(stage.alternatives ?? []).length} phrasings`;
  if (name === "cache") return stage.hit ? "remembered" : "";
  return "";
}
